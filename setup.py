import re
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
version = re.search(r'__version__ = "(.+)"', (here / "comet_keras/__init__.py").read_text()).group(1)

extras = {
    # tensorboard: KerasTuner imports it in every trial on the TensorFlow backend.
    "tuner": ["keras-tuner>=1.4.7", "tensorboard>=2.18", "scikit-learn>=1.3"],
    # importlib_resources: tensorflow-datasets imports it without requiring it.
    # xlrd: Jester's original files are .xls.
    "datasets": ["scikit-learn>=1.3", "tensorflow-datasets>=4.9.6", "importlib_resources", "xlrd>=2.0"],
    "plots": ["matplotlib>=3.8"],
    "bert": ["keras-hub>=0.18"],
}
extras["dev"] = [
    *extras["tuner"],
    *extras["datasets"],
    *extras["plots"],
    "pytest>=8",
    "pytest-xdist>=3.5",
    "hypothesis>=6.100",
    "onnx>=1.16",
    "onnxruntime>=1.18",
    "tf2onnx>=1.16",
    "nbclient>=0.10",
    "nbformat>=5.9",
    "ipykernel>=6.29",
]
extras["all"] = sorted({requirement for group in extras.values() for requirement in group})

setup(
    name="comet_keras",
    version=version,
    description="Sparse mixtures of experts for Keras: COMET, local search, and the gates they are compared with",
    long_description=(here / "README.md").read_text(),
    long_description_content_type="text/markdown",
    packages=find_packages(include=["comet_keras", "comet_keras.*"]),
    python_requires=">=3.10",
    install_requires=["keras>=3.14", "tensorflow>=2.18", "numpy>=1.26", "scipy>=1.11"],
    extras_require=extras,
    entry_points={"console_scripts": ["comet-keras = comet_keras.cli:main"]},
    classifiers=[
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)

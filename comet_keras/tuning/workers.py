"""A search by several processes: KerasTuner's chief, which hands out trials, and its workers.

They speak over KerasTuner's own protocol and share the search's folder, on several machines too. The chief
alone writes the search's state. A worker that is killed is started again by the process that started it, and
goes on with its trial; the trial of one that falls silent goes to another.
"""

import logging
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from comet_keras.files import write_whole

HEARTBEATS = "workers"
BEAT_SECONDS = 2.0
POLL_SECONDS = 0.2
# How long a chief may take to answer, and a worker of another machine to show life.
PATIENCE_SECONDS = 120.0
# Deaths of a worker in a row, without a trial that ended in between.
RESTARTS = 5
BAD_REQUEST, INTERRUPTED = 2, 130
CHIEF_ID = "KERASTUNER_TUNER_ID"
CHIEF_HOST, CHIEF_PORT = "KERASTUNER_ORACLE_IP", "KERASTUNER_ORACLE_PORT"


def role_of_environment():
    """What KerasTuner's variables make of this process: `(role, address)`, role `"chief"` or `"worker"`; or None.

    Raises:
        ValueError: if only some of the three are set.
    """
    values = {name: os.environ.get(name) for name in (CHIEF_ID, CHIEF_HOST, CHIEF_PORT)}
    missing = [name for name, value in values.items() if not value]
    if len(missing) == 3:
        return None
    if missing:
        raise ValueError(f"The environment sets some of KerasTuner's variables, but not {', '.join(missing)}.")
    address = parse_address(f"{values[CHIEF_HOST]}:{values[CHIEF_PORT]}")
    return ("chief" if "chief" in values[CHIEF_ID] else "worker"), address


def parse_address(text, name="address"):
    """`("host", port)` of `"host:port"`.

    Example:

    >>> from comet_keras.tuning.workers import parse_address
    >>> parse_address("10.0.0.5:8000")
    ('10.0.0.5', 8000)
    """
    host, _, port = str(text).rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) < 65536:
        raise ValueError(f"`{name}` must be HOST:PORT. Received: {text!r}")
    return host, int(port)


def run_chief(study, workers, address=None):
    """Serves the trials of a study, and starts workers here, until the search has ended.

    Args:
        study: `Study`, opened.
        workers: int >= 0, processes to start here.
        address: `(host, port)` to listen at for workers of other machines. Default: this machine only.
    """
    import grpc
    from keras_tuner.src import protos
    from keras_tuner.src.distribute.oracle_chief import OracleServicer

    tuner = study.make_tuner()
    tuner.save()
    oracle = tuner.oracle
    if study.has_ended():
        return oracle.journal
    # One thread for all that touches the oracle.
    thread = ThreadPoolExecutor(max_workers=1)
    server = grpc.server(thread)
    protos.get_service_grpc().add_OracleServicer_to_server(OracleServicer(oracle), server)
    host, port = address or ("127.0.0.1", 0)
    port = _bind(server, host, port)
    server.start()
    team = Team(study, workers, (host, port), study.verbose)
    try:
        team.start()
        if address and study.verbose:
            print(f"Waiting for workers at {host}:{port}.", flush=True)
        pulses = {}
        while not thread.submit(lambda: oracle.stopped and not oracle.ongoing_trials and not oracle.tuner_ids).result():
            if oracle.failure is not None:
                raise oracle.failure
            team.watch(len(oracle.journal.session))
            for name in thread.submit(lambda: list(oracle.tuner_ids)).result():
                if not team.has(name) and _is_silent(study.folder, name, pulses):
                    trial_id = thread.submit(oracle.release, name).result()
                    given = f"; its trial {trial_id} goes to another" if trial_id else ""
                    print(f"Worker {name} is silent{given}.", flush=True)
            time.sleep(POLL_SECONDS)
        team.join()
    finally:
        team.stop()
        server.stop(grace=1).wait()
    return oracle.journal


def run_workers(study, workers, address):
    """Starts workers for a chief at `address`, until it has no more trials."""
    wait_for(address)
    team = Team(study, workers, address, study.verbose)
    try:
        team.start()
        while team.processes:
            team.watch(0)
            time.sleep(POLL_SECONDS)
    finally:
        team.stop()


class Team:
    """The worker processes that this process started.

    Args:
        study: `Study`, which must be picklable.
        size: int, how many.
        address: `(host, port)` of the chief.
        verbose: int.

    Raises:
        ValueError: if the study cannot be pickled.
    """

    def __init__(self, study, size, address, verbose):
        self._study, self._address, self._verbose = study, address, verbose
        host = socket.gethostname().replace("chief", "c")  # KerasTuner takes a name with "chief" for the chief
        self._names = [f"{host}-{os.getpid()}-{number}" for number in range(1, size + 1)]
        self._context = multiprocessing.get_context("spawn")
        self.processes = {}
        self._deaths, self._ended = 0, 0
        if size:
            _check_picklable(study)

    def has(self, name):
        return name in self._names

    def start(self):
        for name in self._names:
            self._start(name)

    def watch(self, ended):
        """Starts again what was killed; takes out what has finished.

        Args:
            ended: int, trials that have ended so far.

        Raises:
            ValueError: what a worker found wrong in the study.
            RuntimeError: if workers die again and again.
        """
        if ended > self._ended:
            self._ended, self._deaths = ended, 0
        for name, (process, pipe) in list(self.processes.items()):
            if process.is_alive():
                continue
            del self.processes[name]
            if process.exitcode == 0:
                continue
            if process.exitcode == BAD_REQUEST and pipe.poll():
                raise ValueError(pipe.recv())
            if process.exitcode == INTERRUPTED:
                raise KeyboardInterrupt
            self._deaths += 1
            if self._deaths > RESTARTS:
                raise RuntimeError(f"Workers died {self._deaths} times, and no trial ended in between.")
            if self._verbose:
                print(f"Worker {name} {_death(process.exitcode)}; it is started again.", flush=True)
            self._start(name)

    def join(self):
        for process, _ in self.processes.values():
            process.join(BEAT_SECONDS * 5)

    def stop(self):
        for process, _ in self.processes.values():
            process.terminate()
        for process, _ in self.processes.values():
            process.join()
        self.processes = {}

    def _start(self, name):
        ours, theirs = self._context.Pipe(duplex=False)
        arguments = (self._study, name, self._address, os.getpid(), theirs)
        process = self._context.Process(target=work, args=arguments, daemon=True)
        process.start()
        theirs.close()
        self.processes[name] = process, ours


def work(study, name, address, parent, pipe):
    """A worker's life, the target of a process."""
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # each trial compiles its own model
    try:
        run_worker(study, name, address, parent)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except (ValueError, OSError) as error:
        pipe.send(str(error))
        sys.exit(BAD_REQUEST)


def run_worker(study, name, address, parent=None):
    """Runs trials that the chief at `address` hands out, until it has no more.

    Args:
        study: `Study`.
        name: str, unique among the workers.
        address: `(host, port)`.
        parent: process number of who started this worker, which ends with it. Default: none.

    Raises:
        OSError: if the chief does not answer.
        ValueError: if the chief searches for something else.
    """
    host, port = address
    os.environ.update({CHIEF_ID: name, CHIEF_HOST: host, CHIEF_PORT: str(port)})
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # workers may share a GPU
    proxies = os.environ.get("no_grpc_proxy") or os.environ.get("no_proxy") or ""
    os.environ["no_grpc_proxy"] = f"{proxies},{host}".lstrip(",")
    wait_for(address)
    study.check_same()
    study.hypermodel.prepare()
    stop = threading.Event()
    threading.Thread(target=_beat, args=(study.folder, name, parent, stop), daemon=True).start()
    try:
        study.make_tuner(before_request=lambda: wait_for(address)).search()
    finally:
        stop.set()


def wait_for(address, seconds=PATIENCE_SECONDS):
    """Returns once something answers at `address`; raises OSError after some time."""
    limit = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(address, timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > limit:
                raise OSError(f"The chief at {address[0]}:{address[1]} does not answer: {error}") from None
            time.sleep(POLL_SECONDS)


def _beat(folder, name, parent, stop):
    """Shows life to the chief of another machine, and ends with the parent."""
    path = Path(folder) / HEARTBEATS / name
    path.parent.mkdir(exist_ok=True)
    while not stop.wait(BEAT_SECONDS):
        if parent is not None and os.getppid() != parent:
            os._exit(1)
        write_whole(path, lambda partial: partial.write_text(str(time.time())))
    path.unlink(missing_ok=True)


def _is_silent(folder, name, pulses):
    """Whether a worker's heartbeat has not changed for too long, by the clock of this process."""
    path, now = Path(folder) / HEARTBEATS / name, time.monotonic()
    beat = path.read_text() if path.is_file() else None
    if name not in pulses or pulses[name][0] != beat:
        pulses[name] = beat, now
    return now - pulses[name][1] > PATIENCE_SECONDS


def _bind(server, host, port):
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError:
        bound = 0
    if not bound:
        raise ValueError(f"Nothing can listen at {host}:{port}; another process may.")
    return bound


def _check_picklable(study):
    try:
        pickle.dumps(study)
    except Exception as error:
        raise ValueError(
            "Worker processes need a build function and data that can be pickled, such as a function of a module "
            f"and arrays: {error}"
        ) from None


def _death(exitcode):
    if exitcode < 0:
        return f"was killed by {signal.Signals(-exitcode).name}"
    return f"ended with exit code {exitcode}"

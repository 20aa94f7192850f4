"""How an agent's sandbox is worked with, for sandbox.py and real.py: calls come in bursts (a session), sessions are minutes apart. Each line
of the log: time, number, kind (start: all it needs is there; first: the first call of a session; call), milliseconds.

  NUMBER LOG FOLDER SESSION_S AWAY_S PAUSE_S

The means of a session, of the time away and of the pause between calls are in seconds."""
import os
import random
import sys
import time


class Agent:
    def __init__(self):
        self.began = time.time()
        self.number, log, self.folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
        self.session_s, self.away_s, self.pause_s = (float(text) for text in sys.argv[4:7])
        self.chance = random.Random(self.number * 7919)
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def say(self, kind, began):
        now = time.time()
        os.write(self.log, b"%.2f %d %s %.2f\n" % (now, self.number, kind, (now - began) * 1000))

    def work(self, call, after_call=lambda: None, after_session=lambda: None):
        self.say(b"start", self.began)
        time.sleep(self.chance.random() * self.pause_s)
        while True:
            ends, kind = time.time() + self.chance.expovariate(1 / self.session_s), b"first"
            while time.time() < ends:
                began = time.time()
                call()
                self.say(kind, began)
                kind = b"call"
                after_call()
                time.sleep(self.chance.expovariate(1 / self.pause_s))
            after_session()
            time.sleep(self.chance.expovariate(1 / self.away_s))

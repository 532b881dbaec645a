"""A user that asks for the front page and thinks in between."""

import os

from locust import HttpUser, constant, task


class Visitor(HttpUser):
    wait_time = constant(float(os.environ["TAILOR_USERS"]) / float(os.environ["TAILOR_RATE"]))

    @task
    def front(self):
        self.client.get("/")

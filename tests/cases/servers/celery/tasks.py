from celery import Celery

app = Celery("tasks", broker="redis://broker:6379/0")


@app.task
def add(a, b):
    return a + b

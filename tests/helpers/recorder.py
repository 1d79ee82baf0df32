"""A callback of scikit-learn that keeps what it hears."""


class Recorder:
    """Keeps the names of the tasks that begin and end."""

    max_propagation_depth = 0

    def __init__(self):
        self.begun, self.ended = [], []

    def setup(self, estimator, context):
        self.begun.append("setup")

    def on_fit_task_begin(self, estimator, context, **kwargs):
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context, **kwargs):
        self.ended.append(context.task_name)

    def teardown(self, estimator, context):
        self.ended.append("teardown")

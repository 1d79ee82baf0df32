"""Doctests of a single file of the package see what a user sees."""

from importlib import import_module

# Modules of the package that say what other libraries do with it; each needs its own.
OPTIONAL = "pa_select.interop."


def pytest_ignore_collect(collection_path, config):
    """Import a module of the package as Python does, before pytest imports it.

    pytest alone would import its package first, and then the module a second time. It would put
    this second module in the place of the function of the same name. Nothing else is left out
    for want of a library: a test file that cannot be imported fails the run.
    """
    if collection_path.parent == config.rootpath / "docs" and collection_path.suffix == ".py":
        return True  # Sphinx runs these, with libraries of its own
    package = config.rootpath / "pa_select"
    if collection_path.suffix == ".py" and collection_path.is_relative_to(package):
        name = ".".join(collection_path.relative_to(package.parent).with_suffix("").parts)
        try:
            import_module(name.removesuffix(".__init__"))
        except ImportError:
            if not name.startswith(OPTIONAL):
                raise
            return True
    return None

"""Doctests of a single file of the package, or of the laboratory, see what a user sees."""

from importlib import import_module

# Modules that say what other libraries do; each needs its own.
OPTIONAL = ("pa_select.interop.", "papers.foolbox_attack")


def pytest_ignore_collect(collection_path, config):
    """Import a module of a package as Python does, before pytest imports it.

    pytest alone would import its package first, and then the module a second time. It would put
    this second module in the place of the function of the same name. Nothing else is left out
    for want of a library: a test file that cannot be imported fails the run.
    """
    if collection_path.parent == config.rootpath / "docs" and collection_path.suffix == ".py":
        return True  # Sphinx runs these, with libraries of its own
    if collection_path.suffix != ".py":
        return None
    examples = config.rootpath / "examples"
    if collection_path.is_relative_to(examples) and ">>> " not in collection_path.read_text():
        return True  # a script, which would run if it were imported
    for package in (config.rootpath / "pa_select", examples / "papers"):
        if collection_path.is_relative_to(package):
            name = ".".join(collection_path.relative_to(package.parent).with_suffix("").parts)
            try:
                import_module(name.removesuffix(".__init__"))
            except ImportError:
                if not name.startswith(OPTIONAL):
                    raise
                return True
    return None

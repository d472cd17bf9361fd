"""The apps of the modules named on the command line, and the store they share."""

import os
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headgate.app import Headgate
from headgate.cli.command import Command
from headgate.client import call_of
from headgate.core.errors import HeadgateError, Invalid, UnknownType
from headgate.core.task import NewTask
from headgate.events.listeners import Listener, Listeners
from headgate.registry import Registry, load_module
from headgate.settings import Settings, load
from headgate.store.store import Store, configured_store

_PACKAGE = str(Path(__file__).parents[1])


def apps_in(modules: Iterable[str]) -> list[Headgate]:
    """Every `Headgate` in these modules, each once."""
    found: list[Headgate] = []
    for name in modules:
        here = [value for value in vars(_load(name)).values() if isinstance(value, Headgate)]
        if not here:
            raise Invalid(f"module {name} has no Headgate app: add `app = headgate.Headgate()` and declare tasks on it")
        found += [app for app in here if app not in found]
    return found


def _load(name: str) -> object:
    """The module; `Invalid`, naming the line, if it cannot be loaded."""
    if name.endswith(".py"):
        raise Invalid(f"expected a module, not a file: use {name.removesuffix('.py').replace('/', '.')}")
    try:
        return load_module(name)
    except HeadgateError:
        raise
    except SyntaxError as error:
        raise Invalid(f"module {name} cannot be loaded: {error.filename}:{error.lineno}: {error.msg}") from None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        user_frames = [frame for frame in frames if not frame.filename.startswith((_PACKAGE, "<frozen"))]
        where = (user_frames or frames)[-1]
        cause = f"{where.filename}:{where.lineno}: {type(error).__name__}: {error}"
        raise Invalid(f"module {name} cannot be loaded: {cause}") from error


def settings_of(apps: list[Headgate], url: str | None) -> Settings:
    """The settings the apps agree on, on the store at `url` if there is one; `Invalid` if they do not agree."""
    if not apps:
        return load({"url": url})
    found = [app._settings if url is None else replace(app._settings, url=url) for app in apps]
    if len({(settings.url, settings.schema) for settings in found}) > 1:
        raise Invalid(
            "these apps use different stores, and a worker has one: run them separately, or set --url or HEADGATE_URL"
        )
    if len(set(found)) > 1:
        raise Invalid("these apps have different settings, and a worker has one set: run them separately")
    return found[0]


def bind_apps(apps: list[Headgate], store: Store) -> Registry:
    """Bind the apps to the store and register their types there; returns the handlers of all of them."""
    registry = Registry()
    for app in apps:
        app.bind(store)
        for handler in app._registry:
            registry.add(handler)
        assert app.store is store  # reading `app.store` registers the app's types
    return registry


def listeners_of(apps: list[Headgate]) -> list[Listener]:
    """The listeners of all the apps."""
    found = Listeners()
    for app in apps:
        for listener in app._listeners:
            found.add(listener)
    return list(found)


def declared_task(command: Command, module: str, new: NewTask, arguments: Mapping[str, Any]) -> tuple[NewTask, Store]:
    """The task as the module declares it, its arguments checked, and the store of that module's app."""
    apps = apps_in([module])
    settings = settings_of(apps, command.url or os.environ.get("HEADGATE_URL"))
    store = command.context.with_resource(configured_store(settings))
    store.bring_up_to_date()
    handler = bind_apps(apps, store).get(new.type)
    if handler is None:
        raise UnknownType(f"module {module} declares no task {new.type}")
    return call_of(handler, new, (), arguments)._new, store

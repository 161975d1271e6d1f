"""`handrail runs resume`."""

from __future__ import annotations

import click

from handrail.cli._app import App, as_command
from handrail.cli._exits import Exit, Halt
from handrail.cli._headless import OnDenied, Task, on_denied, work
from handrail.cli._kit import Kit
from handrail.cli._models import model_of
from handrail.cli._options import JUDGED, MODELLED, run_ids
from handrail.cli._outlet import Outlet
from handrail.cli._saved import find_run
from handrail.cli._session import taken_up


@as_command("resume", "Go on with a saved run.", *JUDGED, *MODELLED)
@click.argument("run", metavar="RUN", shell_complete=run_ids)
@click.argument("prompt", nargs=-1)
@on_denied("suspend")
def command(app: App, run: str, prompt: tuple[str, ...], on_denied: OnDenied) -> Exit:
    """Go on with a saved run: RUN is its id, the beginning of that, or last.

    Calls that waited run if they were allowed: by `handrail runs approve`, or at the terminal now.
    What is not answered waits on, and the exit code is 4. A PROMPT is what the model is told next.

    What the first command line gave counts again, unless it is given anew: another --model, or a
    higher limit. Settings in files, and rules, count as they are now.
    """
    saved, data = find_run(run), Outlet(app)
    with saved.held():
        state = saved.state()
        if not (prompt or state.messages or state.inbox):
            raise Halt(
                f"nothing was said yet in run {saved.id}", code="no_prompt", hint="give a prompt"
            )
        then = taken_up(app, saved)
        kit = Kit(then)
        model = model_of(then.settings, then.workspace)
        return work(
            Task(
                kit=kit,
                saved=saved,
                model=model,
                data=data,
                prompt=(" ".join(prompt),) if prompt else (),
                on_denied=on_denied,
                asks=app.asks,
            )
        )

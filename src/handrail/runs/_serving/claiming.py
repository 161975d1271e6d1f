"""Claim requests of durable runs: the row of a request takes one answer, the first."""

from __future__ import annotations

import time

from handrail.permissions import Answer
from handrail.runs._durable.questions import Question, Questions
from handrail.runs._durable.rows import Rows
from handrail.runs._engine.port import segment_id
from handrail.runs._engine.workflows import Workflows
from handrail.runs._reading.claims import AnswerOutcome, Claimant, name_answer, say_unknown
from handrail.runs.crash_points import crash_point


class Claims:
    """Records answers, writes them to the journal, and lets their runs continue."""

    def __init__(self, rows: Rows, questions: Questions, workflows: Workflows) -> None:
        self._rows = rows
        self._questions = questions
        self._workflows = workflows

    async def claim(self, pending_id: str, answer: Answer, claimant: Claimant) -> AnswerOutcome:
        """Record an answer if this person may give it, and if there is none yet."""
        question = await self._questions.find(pending_id)
        if question is None:
            return say_unknown(pending_id)
        named = name_answer(answer, claimant)
        outcome = await self._questions.claim(question, named, claimant, time.time())
        if outcome.status == "counted":
            await self._note(question, "vote", named, claimant)
        elif outcome.status == "used":
            crash_point("answer.given")
            await self._note(question, "answer", named, claimant)
            current = await self._questions.find(pending_id) or question
            await self._workflows.wake(segment_id(current.run, current.segment))
            crash_point("run.woken")
        return outcome

    async def _note(
        self, question: Question, kind: str, answer: Answer, claimant: Claimant
    ) -> None:
        journal = self._rows.journal(question.run)
        by = {"by": claimant.by or None, "via": claimant.via, "seen": claimant.seen}
        given = {name: value for name, value in by.items() if value or name == "by"}
        await journal.note_answer(kind, question.pending.id, answer, given)

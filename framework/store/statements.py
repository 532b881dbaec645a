"""SQL statements of every ask and tell, built once, because building a statement costs more than sending it.

Names of bind parameters begin with ``its_`` where the statement may also write a column of the same name.
"""

from __future__ import annotations

from functools import cache

import sqlalchemy as sa

from framework.store.schema import events, measurements, offers, studies, trials

_STUDY: sa.BindParameter[str] = sa.bindparam("its_study")
_NUMBERS: sa.BindParameter[int] = sa.bindparam("its_numbers", expanding=True)
_THESE = (trials.c.study == _STUDY) & trials.c.number.in_(_NUMBERS)

# Reads.
_EXPIRED = sa.exists().where(offers.c.study == studies.c.id, offers.c.expires_ns <= sa.bindparam("its_now"))
STATUS = sa.select(studies.c.state, _EXPIRED).where(studies.c.id == _STUDY)
REVISION = sa.select(  # each is the last entry of an index
    sa.select(sa.func.max(events.c.id)).where(events.c.study == _STUDY).scalar_subquery(),
    sa.select(sa.func.max(measurements.c.id)).where(measurements.c.study == _STUDY).scalar_subquery(),
)
NUMBERED = trials.select().where(_THESE).order_by(trials.c.number)

# An ask.
TURN = sa.select(studies.c.state).where(studies.c.id == _STUDY).with_for_update()  # one writer of a study at a time
LAST = sa.select(sa.func.max(trials.c.number)).where(trials.c.study == _STUDY)

# A tell.
STATES = (
    sa.select(trials.c.number, trials.c.state, studies.c.state.label("study_state"))
    .where(_THESE, studies.c.id == trials.c.study)
    .order_by(trials.c.number)
    .with_for_update(of=trials)
)
TRIAL_ENDS = trials.update().where(trials.c.study == _STUDY, trials.c.number == sa.bindparam("its_number"))
OFFERS_END = offers.delete().where(offers.c.study == _STUDY, offers.c.trial.in_(_NUMBERS))
STUDY_CHANGES = studies.update().where(studies.c.id == _STUDY)


@cache
def inserting(table: sa.Table) -> sa.Insert:
    """Return an INSERT that does not read generated keys back."""
    return table.insert().inline()

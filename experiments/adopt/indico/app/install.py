"""Makes a user, a category and 150 events, once."""

import datetime
import random

from indico.web.flask.app import make_app

app = make_app()
with app.app_context():
    from indico.core.db import db
    from indico.modules.categories.models.categories import Category
    from indico.modules.events.models.events import Event, EventType
    from indico.modules.users import User

    if Event.query.has_rows():
        print("installed already")
        raise SystemExit
    random.seed(1)
    words = ["amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "haven", "inlet", "jetty", "knoll", "ledge"]
    user = User(first_name="Ada", last_name="Admin", email="admin@example.org", is_admin=True)
    db.session.add(user)
    root = Category.get_root()
    category = Category(title="Conferences", parent=root)
    db.session.add(category)
    db.session.flush()
    start = datetime.datetime(2026, 1, 5, 9, tzinfo=datetime.UTC)
    for number in range(150):
        day = start + datetime.timedelta(days=number)
        event = Event(
            title=f"Event {number}: " + " ".join(random.choices(words, k=4)),
            description="<p>" + " ".join(random.choices(words, k=120)) + "</p>",
            start_dt=day,
            end_dt=day + datetime.timedelta(hours=6),
            timezone="UTC",
            category=category,
            creator=user,
            _type=EventType.lecture,
        )
        db.session.add(event)
    db.session.commit()
    print("installed")

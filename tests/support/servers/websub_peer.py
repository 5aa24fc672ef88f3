"""Flask-WebSub as publisher, hub and subscriber: a program of the environment ``.venv/websub``, which has it.

It serves on a loopback port of the kernel's choice, and prints that.  ``/feed.xml`` is a feed with its items and its
hub, ``POST /item`` adds one and has the hub tell, ``POST /subscribe?topic=…&hub=…`` subscribes, ``/heard`` has what
came.  Celery, which needs a broker, is a thread for each task here.
"""

import functools
import json
import sys
import threading
from types import SimpleNamespace

from flask import Flask, Response, request
from flask_websub.hub import Hub, SQLite3HubStorage
from flask_websub.publisher import init_publisher, publisher
from flask_websub.subscriber import SQLite3SubscriberStorage, SQLite3TempSubscriberStorage, Subscriber
from werkzeug.serving import make_server


class Threads:
    """In place of Celery."""

    def task(self, *functions, bind=False, **_options):
        def made(function):
            def delay(*args):
                run = functools.partial(function, SimpleNamespace()) if bind else function
                threading.Thread(target=run, args=args, daemon=True).start()

            return SimpleNamespace(delay=delay)

        return made(functions[0]) if functions else made


folder = sys.argv[1]
app = Flask(__name__)
hub = Hub(SQLite3HubStorage(f"{folder}/hub.sqlite"), Threads())
app.register_blueprint(hub.build_blueprint(url_prefix="/hub"))
init_publisher(app)
stored = SQLite3SubscriberStorage(f"{folder}/subscriber.sqlite")
subscriber = Subscriber(stored, SQLite3TempSubscriberStorage(f"{folder}/temporary.sqlite"))
app.register_blueprint(subscriber.build_blueprint(url_prefix="/callbacks"))
items = ["first"]
heard = []
subscriber.add_listener(lambda topic, _id, body: heard.append([topic, body.decode()]))


@app.route("/feed.xml")
@publisher()
def feed():
    inner = "".join(f"<item><guid>{item}</guid><title>{item}</title></item>" for item in items)
    text = f'<?xml version="1.0"?><rss version="2.0"><channel><title>News</title>{inner}</channel></rss>'
    return Response(text, mimetype="application/rss+xml")


@app.route("/item", methods=["POST"])
def item():
    items.append(request.args["title"])
    hub.send_change_notification.delay(f"{request.url_root}feed.xml")
    return ""


@app.route("/subscribe", methods=["POST"])
def subscribe():
    return subscriber.subscribe(topic_url=request.args["topic"], hub_url=request.args["hub"])


@app.route("/heard")
def what_was_heard():
    return json.dumps(heard)


server = make_server("127.0.0.1", 0, app, threaded=True)
print(server.server_port, flush=True)
server.serve_forever()

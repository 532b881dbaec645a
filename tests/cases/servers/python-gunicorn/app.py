def app(environment, start_response):
    start_response("200 OK", [("Content-Length", "3")])
    return [b"ok\n"]

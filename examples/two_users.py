"""Two users of one server: what belongs to one does not exist for the other."""

from starlette.requests import HTTPConnection

import anabranch

USERS = {"secret-of-ada": "ada", "secret-of-grace": "grace"}  # your own look-up goes here


def who(http: HTTPConnection) -> str | None:
    """The caller's name, or None for a 401."""
    return USERS.get(http.headers.get("authorization", "").removeprefix("Bearer "))


async def greet(request):
    yield "Hello. Only you can read this run: GET /runs/"
    yield request.run_id


app = anabranch.App({"greet": greet}, principal=who)

if __name__ == "__main__":
    app.run(port=8000)

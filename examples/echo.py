"""The smallest agent, served: python examples/echo.py, then post to http://127.0.0.1:8000/agui."""

import anabranch


async def echo(request):
    for line in request.last_user_text().splitlines(keepends=True):
        yield line


app = anabranch.App({"echo": echo})

if __name__ == "__main__":
    app.run(port=8000)

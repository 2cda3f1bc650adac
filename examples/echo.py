"""The smallest agent, served: python examples/echo.py, then post to http://127.0.0.1:8000/agui."""

import uvicorn

import anabranch


async def echo(request):
    for word in request.last_user_text().split(" "):
        yield word + " "


app = anabranch.App({"echo": echo})

if __name__ == "__main__":
    uvicorn.run(app, port=8000)

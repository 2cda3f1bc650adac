"""The LangGraph source: tables of parts, real graphs, a real ChatOpenAI against an endpoint that misbehaves."""

# The HTTP service: docker build -t causalbandits . && docker run -p 8000:8000 -v causalbandits:/data causalbandits
# docs/how-to/container.md has the first start, with an API key.

FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
RUN pip install --no-cache-dir -c constraints.txt hatchling \
    && python -m hatchling build -t wheel -d /wheels \
    && python -m venv /opt/causalbandits \
    && /opt/causalbandits/bin/pip install --no-cache-dir -c constraints.txt "$(ls /wheels/*.whl)[service,postgres]"

FROM python:3.13-slim
COPY --from=build /opt/causalbandits /opt/causalbandits
RUN useradd --create-home --uid 10001 causalbandits \
    && install --directory --owner=causalbandits --mode=0700 /data
ENV PATH=/opt/causalbandits/bin:$PATH
USER 10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/livez', timeout=2)"]
ENTRYPOINT ["causalbandits"]
CMD ["serve", "/data", "--host", "0.0.0.0", "--port", "8000", "--keys", "/data/keys.json", "--drain-seconds", "5", "--log-format", "json"]

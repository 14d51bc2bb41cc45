# The manager as an image: `docker build -t multikueue .`, or for both architectures into a file: `make image VERSION=0.1.0`.
# Tag and digest as one, for where there is a digest the tag counts for nothing: `docker buildx imagetools inspect
# python:3.13-slim` tells the newest.
ARG PYTHON=3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM python:${PYTHON} AS build
# The time of every file in the wheel, in seconds: with it two builds of one commit are equal.
ARG SOURCE_DATE_EPOCH
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY requirements requirements
COPY multikueue multikueue
COPY strategies strategies
RUN python -m venv --without-pip /opt/multikueue
RUN python -m pip install --no-cache-dir --require-hashes --requirement requirements/build.txt
RUN python -m pip --python /opt/multikueue install --no-cache-dir --no-compile --require-hashes --requirement requirements/image.txt
# The classes of the whole Kubernetes API, which the manager never imports: 47 of 166 MB.
RUN python -c "import pathlib, shutil; [shutil.rmtree(folder) for folder in pathlib.Path('/opt/multikueue/lib').glob('python3*/site-packages/kubernetes_asyncio/client/*') if folder.name in {'api', 'models'}]"
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir wheels .
RUN python -m pip --python /opt/multikueue install --no-compile --no-deps --no-index --find-links wheels multikueue
# Bytecode as part of the image: the process may not write any, and without it each start takes two seconds longer.
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/multikueue/lib

# With the console: `docker build --target console -t multikueue-console .`
FROM build AS build-console
ARG SOURCE_DATE_EPOCH
COPY console console
RUN python -m pip --python /opt/multikueue install --no-cache-dir --no-compile --require-hashes --requirement requirements/console.txt
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir wheels ./console
RUN python -m pip --python /opt/multikueue install --no-compile --no-deps --no-index --find-links wheels multikueue-console
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/multikueue/lib

FROM python:${PYTHON} AS console
RUN python -m pip uninstall --yes --quiet --root-user-action ignore pip
COPY --from=build-console /opt/multikueue /opt/multikueue
ENV PATH=/opt/multikueue/bin:$PATH \
    PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["multikueue"]
CMD ["console", "--help"]

FROM python:${PYTHON}
# Nothing in here installs or builds anything.
RUN python -m pip uninstall --yes --quiet --root-user-action ignore pip
COPY --from=build /opt/multikueue /opt/multikueue
ENV PATH=/opt/multikueue/bin:$PATH \
    PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["multikueue"]
CMD ["run"]

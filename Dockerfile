# The manager as an image: `docker build -t multikueue .`
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY multikueue multikueue
COPY strategies strategies
RUN python -m venv --without-pip /opt/multikueue
RUN python -m pip --python /opt/multikueue install --no-cache-dir --no-compile '.[fast]'
# Bytecode as part of the image: the process may not write any, and without it each start takes two seconds longer.
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/multikueue/lib

FROM python:${PYTHON}-slim
# Nothing in here installs or builds anything.
RUN python -m pip uninstall --yes --quiet --root-user-action ignore pip
COPY --from=build /opt/multikueue /opt/multikueue
ENV PATH=/opt/multikueue/bin:$PATH \
    PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["multikueue"]
CMD ["run"]

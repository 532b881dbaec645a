# Tailor itself, with a Docker client and Compose; it uses the engine of the machine through its socket:
#
#   make image-tailor
#   docker run --rm -it --network host -v /var/run/docker.sock:/var/run/docker.sock \
#     -v "$HOME/.tailor:$HOME/.tailor" -e TAILOR_HOME="$HOME/.tailor" tailor/tailor:1 tune apps/social-network --quick
#
# TAILOR_HOME has the same path inside as outside, because the engine mounts the files that Tailor writes there, and
# the host's network is used, because Tailor speaks with the services under their own addresses.
# Host networking and bind mounts as above need the engine on this machine's own Linux.
ARG PYTHON=python:3.11-slim-bookworm
ARG COMPOSE=docker/compose-bin:v2.39.4

FROM ${COMPOSE} AS compose

FROM ${PYTHON} AS client
WORKDIR /client
# Only the client of Debian's package; the daemon in it is of no use here.
RUN apt-get update \
 && apt-get download docker.io \
 && dpkg --extract docker.io_*.deb . \
 && usr/bin/docker --version

FROM ${PYTHON} AS environment
RUN python3 -m venv /venv
WORKDIR /tailor
# certificates.crt is there where this machine trusts more than the image does (a company's proxy, for instance).
COPY requirements.txt build/certificates.cr[t] ./
RUN if [ -f certificates.crt ]; then export PIP_CERT=$PWD/certificates.crt; fi \
 && /venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.txt
COPY . .
RUN if [ -f certificates.crt ]; then export PIP_CERT=$PWD/certificates.crt; fi \
 && /venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --editable . \
 && /venv/bin/python -m compileall -q framework optimizer \
 && rm -rf certificates.crt build

FROM ${PYTHON}
ENV PATH=/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /tailor
COPY --from=client /client/usr/bin/docker /usr/local/bin/docker
COPY --from=compose /docker-compose /usr/local/lib/docker/cli-plugins/docker-compose
COPY --from=environment /venv /venv
COPY --from=environment /tailor /tailor
ENTRYPOINT ["tailor"]
CMD ["serve"]

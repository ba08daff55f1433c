# LakeSail's Sail out of its Python package: docker build --tag sail:0.7.2 - < deploy/sail.Dockerfile
FROM python:3.13-slim-trixie
RUN pip install --no-cache-dir pysail==0.7.2
# Of the servers' group, which may read the lake, and not their user, who may write it.
USER 10002:10001
ENTRYPOINT ["/usr/local/bin/sail"]

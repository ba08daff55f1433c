# The programs of the service; each is the command: docker run telemetry-service dist/src/bin/flight-sql-srv.js
FROM node:24-trixie-slim AS base
ENV npm_config_yes=true CI=true
WORKDIR /app
COPY package.json pnpm-lock.yaml pnpm-workspace.yaml ./
COPY patches patches
COPY client/package.json client/
COPY web/package.json web/

FROM base AS build
RUN npx pnpm@12 install --frozen-lockfile
COPY . .
RUN node scripts/build.mjs

FROM base AS packages
# uWebSockets.js brings 250 MB of binaries, for every platform.
RUN npx pnpm@12 install --frozen-lockfile --prod \
  && uws=uws_$(node -p '`${process.platform}_${process.arch}_${process.versions.modules}`').node \
  && find node_modules/.pnpm -name 'uws_*.node' ! -name "$uws" -delete

FROM node:24-trixie-slim
RUN groupadd --system --gid 10001 telemetry \
  && useradd --system --uid 10001 --gid telemetry --home-dir /data --shell /usr/sbin/nologin telemetry \
  && install --directory --owner=telemetry --group=telemetry --mode=0750 /data
WORKDIR /app
COPY --from=packages /app .
COPY --from=build /app/dist/src dist/src
COPY --from=build /app/client/dist client/dist
COPY --from=build /app/web/dist web/dist
COPY migrations migrations
ENV NODE_ENV=production SVC_DATA_DIR=/data
USER 10001
VOLUME /data
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "--enable-source-maps"]
CMD ["dist/src/bin/telemetry-monolith.js"]

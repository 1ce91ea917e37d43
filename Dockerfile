# One image for every process type:  docker build -t examhall . && docker run examhall grading
# docs/deploying.md describes it. The workflow `image` builds and runs it.
ARG NODE_VERSION=24.21.0
# `@sha256:…` of that tag, for a release: docs/deploying.md, "The base by its digest".
ARG NODE_DIGEST=

FROM node:${NODE_VERSION}-slim${NODE_DIGEST} AS build
ENV NODE_ENV=production
# The compile cache belongs to a user: it has the user's id in its name. So the user that runs the image fills it.
USER 1000:1000
COPY --chown=1000:1000 package.json package-lock.json .npmrc /home/node/app/
WORKDIR /home/node/app
RUN npm ci --omit=dev --no-audit --no-fund
COPY --chown=1000:1000 . .
# Node lets only their owner read the entries of its cache. Root owns the image, so that no process can change them.
RUN deploy/prune \
  && NODE_COMPILE_CACHE=node_modules/.cache/compiled NODE_COMPILE_CACHE_PORTABLE=1 node scripts/compile.ts \
  && chmod -R a+rX,go-w .

FROM node:${NODE_VERSION}-slim${NODE_DIGEST}
LABEL org.opencontainers.image.title="examhall" org.opencontainers.image.licenses="Apache-2.0"
# With METRICS_PORT a worker answers its probes. Only front doors listen on PORT.
ENV NODE_ENV=production METRICS_PORT=9464
WORKDIR /app
COPY --from=build --chown=0:0 /home/node/app /app
USER 1000:1000
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["node", "deploy/health.mjs"]
ENTRYPOINT ["/app/deploy/run"]
CMD ["web"]

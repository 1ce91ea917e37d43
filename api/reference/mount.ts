import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { bytesReply, fileReply } from '#api/http/reply.ts';
import type { Route } from '#api/route.ts';
import type { Log } from '#infra/log/log.ts';
import manifest from '../../package.json' with { type: 'json' };

export interface ReferenceDeps {
  /** API_DOCS. */
  enabled: boolean;
  log: Pick<Log, 'warn'>;
  /** Returns the folder of the package that draws the page, or null if it is not installed; default: the installed one. */
  findPackage?: () => string | null;
}

const PACKAGE = 'swagger-ui-dist';
const SCRIPT = 'text/javascript; charset=utf-8';
const STYLE = 'text/css; charset=utf-8';
/** The files of the package that the page needs. No other file of it is served. */
const FILES = { 'swagger-ui.css': STYLE, 'swagger-ui-bundle.js': SCRIPT } as const;

/** The page runs the scripts and styles of this process only and calls this process only. The icons of the style are `data:` images. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join('; ');

const HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': POLICY,
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cache-Control': 'no-cache',
} as const;

const PAGE = Buffer.from(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>examhall API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/assets/swagger-ui.css">
<script defer src="/docs/assets/swagger-ui-bundle.js"></script>
<script defer src="/docs/assets/start.js"></script>
</head>
<body>
<noscript>This page needs JavaScript. The document itself is <a href="/openapi.json">/openapi.json</a>.</noscript>
<main id="reference"></main>
</body>
</html>
`);

/**
 * Returns the routes of `/docs`: the reference of the API, drawn from `/openapi.json` by the browser. They are pages for a browser, and no
 * part of the API and its document. Returns none if API_DOCS is off or the package is not installed; the addresses are then unknown ones.
 */
export function referenceRoutes({ enabled, log, findPackage = installedPackage }: ReferenceDeps): Route[] {
  if (!enabled) return [];
  const folder = findPackage();
  if (folder === null) {
    const remedy = `npm install --no-save ${PACKAGE}@${manifest.devDependencies[PACKAGE]}`;
    log.warn({ package: PACKAGE, remedy }, 'reference has not found its package; /docs is not served');
    return [];
  }
  return [
    get('/docs', async () => bytesReply(200, HEADERS, PAGE)),
    ...Object.entries(FILES).map(([name, type]) => file(name, type, () => readFileSync(path.join(folder, name)))),
    file('start.js', SCRIPT, () => readFileSync(new URL('./assets/start.js', import.meta.url))),
  ];
}

function file(name: string, type: string, read: () => Buffer): Route {
  const reply = fileReply(type, read);
  return get(`/docs/assets/${name}`, async ({ headers }) => reply(headers['if-none-match']));
}

function get(at: string, handle: Route['handle']): Route {
  return { method: 'GET', path: at, operation: '', summary: '', guards: [], replies: [], errors: [], handle };
}

/** The package is for development. A production installation has it only if an operator adds it. */
function installedPackage(): string | null {
  try {
    return path.dirname(fileURLToPath(import.meta.resolve('swagger-ui-dist/package.json')));
  } catch {
    return null;
  }
}

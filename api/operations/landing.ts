import { bytesReply } from '#api/http/reply.ts';
import type { Call, Route, Tag } from '#api/route.ts';

interface LandingDeps {
  version: string;
  production: boolean;
  /** Returns the routes of the API, and the pages for a browser. */
  mounted(): readonly Pick<Route, 'method' | 'path'>[];
  pages(): readonly Pick<Route, 'method' | 'path'>[];
}

/** A place to go from the root. `path` is shown only if this process serves it. */
interface Link {
  path: string;
  description: string;
}

const LINKS: readonly Link[] = [
  { path: '/ops', description: 'Console for operators: alarms, queues, traces, exams' },
  { path: '/docs', description: 'Reference of the API, to read and try' },
  { path: '/openapi.json', description: 'OpenAPI 3.1 document of this process' },
  { path: '/v1', description: 'Services and routes of this process' },
  { path: '/readyz', description: 'State of the process and its stores' },
  { path: '/healthz', description: 'Version and uptime of the process' },
];

/** Shown outside production, where a developer has a checkout. */
const DEMO = { command: 'npm run demo', description: 'In a second terminal: 40 students sit an exam on this cluster' };

/** Group of the routes that every process has. */
export const PROCESS: Tag = {
  name: 'Process',
  description: 'Health, metrics and contents of a process. They need no headers, except the metrics in production.',
};

/** Nothing on the page is fetched, so it may fetch nothing. */
const HTML_HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Cache-Control': 'no-store',
  Vary: 'Accept',
} as const;

/** Returns the route of the root. Its reply names what this process serves, and nothing secret. */
export function landingRoute({ version, production, mounted, pages }: LandingDeps): Route {
  const linksOf = () => {
    const served = new Set([...mounted(), ...pages()].flatMap(({ method, path }) => (method === 'GET' ? [path] : [])));
    return LINKS.filter(({ path }) => served.has(path));
  };
  return {
    method: 'GET',
    path: '/',
    alsoHead: true,
    operation: 'getLanding',
    summary: 'List where to go from here; a page for browsers, otherwise JSON',
    description:
      'Lists the addresses of this process that a person or a program goes to first. With `Accept: text/html` the reply is a page.',
    tag: PROCESS,
    guards: [],
    headers: [{ name: 'accept', required: false, description: 'With `text/html`, the reply is a page' }],
    replies: [{ status: 200, schema: 'common/landing', description: 'Links of this process' }],
    errors: [],
    async handle({ headers }: Call) {
      const links = linksOf();
      const commands = production ? [] : [DEMO];
      if (!/\btext\/html\b/i.test(headers.accept ?? '')) {
        return { status: 200, data: { service: 'examhall', version, links, commands }, headers: { Vary: 'Accept' } };
      }
      return bytesReply(200, HTML_HEADERS, Buffer.from(pageOf(version, links, commands)));
    },
  };
}

/** Returns the page. All of its text is constant, except the version of the software. */
function pageOf(version: string, links: readonly Link[], commands: readonly (typeof DEMO)[]): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>examhall</title>
</head>
<body>
<main>
<h1>examhall ${version}</h1>
<dl>
${links.map(({ path, description }) => `<dt><a href="${path}">${path}</a></dt>\n<dd>${description}</dd>`).join('\n')}
${commands.map(({ command, description }) => `<dt><code>${command}</code></dt>\n<dd>${description}</dd>`).join('\n')}
</dl>
</main>
</body>
</html>
`;
}

import type { IncomingMessage } from 'node:http';
import type { Head } from '#api/route.ts';

const NONE: ReadonlySet<string> = new Set();

/**
 * The head of a request as guards read it. Node joins or drops a header that came twice, which would let a second
 * X-User-Id pass unseen; `repeated` is found in the raw list instead.
 */
export function readHead(
  request: IncomingMessage,
  method: string,
  path: string,
  params: Readonly<Record<string, string>>,
): Head {
  const headers = request.headers as Readonly<Record<string, string | undefined>>;
  const raw = request.rawHeaders;
  let distinct = 0;
  for (const _ in headers) distinct += 1;
  return { method, path, headers, params, repeated: distinct * 2 === raw.length ? NONE : repeatedNames(raw) };
}

function repeatedNames(raw: readonly string[]): ReadonlySet<string> {
  const seen = new Set<string>();
  const repeated = new Set<string>();
  for (let i = 0; i < raw.length; i += 2) {
    const name = (raw[i] ?? '').toLowerCase();
    if (seen.has(name)) repeated.add(name);
    else seen.add(name);
  }
  return repeated;
}

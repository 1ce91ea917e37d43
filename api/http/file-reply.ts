import { hash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { RawReply } from '#api/route.ts';

/** Returns a reply with these headers and bytes; null for a reply without a body. */
export function bytesReply(
  status: number,
  headers: Readonly<Record<string, string | string[]>>,
  body: Buffer | null,
): RawReply {
  return {
    kind: 'raw',
    async raw(response: ServerResponse) {
      response.writeHead(status, { ...headers, ...(body === null ? {} : { 'Content-Length': body.length }) });
      response.end(body ?? undefined);
    },
  };
}

/**
 * Returns a handler of a file that changes only with a release. The browser sends the ETag of its copy. `read` is called at the first
 * request, so that a file that no browser fetches takes no memory.
 */
export function fileReply(type: string, read: () => Buffer): (ifNoneMatch: string | undefined) => RawReply {
  let file: { body: Buffer; headers: Readonly<Record<string, string>> } | undefined;
  return (ifNoneMatch) => {
    file ??= withETag(type, read());
    const { body, headers } = file;
    return ifNoneMatch === headers.ETag ? bytesReply(304, headers, null) : bytesReply(200, headers, body);
  };
}

function withETag(type: string, body: Buffer) {
  const ETag = `"${hash('sha256', body, 'base64url').slice(0, 22)}"`;
  return { body, headers: { 'Content-Type': type, ETag, 'Cache-Control': 'no-cache' } };
}

import type { Head } from '#api/route.ts';
import { singleHeader } from './single-header.ts';

const BEARER = /^Bearer +([^\s]+)$/i;

/** The token of `Authorization: Bearer`; undefined where the header is missing, malformed or came twice. */
export function bearerToken(head: Head): string | undefined {
  return BEARER.exec(singleHeader(head, 'authorization') ?? '')?.[1];
}

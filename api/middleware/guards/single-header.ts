import type { Head } from '#api/route.ts';

/** The value of a header that came exactly once, else undefined: a second one may be an attacker's. */
export function singleHeader(head: Head, name: string): string | undefined {
  return head.repeated.has(name) ? undefined : head.headers[name];
}

import type { Guard } from '#api/route.ts';

const HEADERS = ['idempotency-key', 'x-idempotency-key', 'x-correlation-id'] as const;
const PRINTABLE = /^[\x20-\x7e]{1,255}$/;

/**
 * Requires a key in the first present of three headers and fills `identity.idempotency`. If that header is malformed, the
 * next one is not read: two retries of one request could otherwise use different keys. If it is not
 * `required`, a request without a well-formed key passes too, and the handler decides.
 */
export function idempotencyKey({ required = true } = {}): Guard {
  return {
    name: 'idempotencyKey',
    codes: required ? ['IDEMPOTENCY_KEY_REQUIRED'] : [],
    headers: HEADERS.map((name, i) => ({
      name,
      required: false,
      description: `Idempotency key, 1-255 printable ASCII characters; read ${i === 0 ? 'first' : 'if the earlier names are absent or empty'}`,
      ...(i === 0 ? { example: 'start-2026-09-01-student-1' } : {}),
    })),
    check(head, known) {
      for (const header of HEADERS) {
        const key = head.headers[header];
        // Gateways that always send a header leave it empty when they have no value.
        if (key === undefined || key === '') continue;
        if (head.repeated.has(header) || !PRINTABLE.test(key)) break;
        known.idempotency = { key, header };
        return undefined;
      }
      return required ? { rejected: 'IDEMPOTENCY_KEY_REQUIRED' } : undefined;
    },
  };
}

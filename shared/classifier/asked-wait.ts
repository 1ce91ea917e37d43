import { membersOf } from '#shared/kernel/json-object.ts';
import { DAY } from '#shared/kernel/time.ts';

/** Any set of headers, as Headers has them. */
export interface HeaderReader {
  get(name: string): string | null;
}

/** Longer waits are a slip of the provider's: they would leave it, and jobs that wait for it, alone for good. */
const MOST_ASKED_WAIT_MS = 1 * DAY;

/**
 * The wait that an answer asks for before the next call (ms, a day at most), null when it asks for none that can be read: a header in
 * milliseconds, Retry-After in seconds or as a date, or Gemini's RetryInfo in the body. A date counts from the sender's
 * own, where it tells it: `now` (Unix ms) may be minutes away from that.
 */
export function askedWaitMs(headers: HeaderReader, body: unknown, now: number): number | null {
  const wait = toldWaitMs(headers, body, now);
  return wait === null ? null : Math.min(wait, MOST_ASKED_WAIT_MS);
}

function toldWaitMs(headers: HeaderReader, body: unknown, now: number): number | null {
  for (const name of ['retry-after-ms', 'x-ms-retry-after-ms']) {
    const wait = decimal(headers.get(name));
    if (wait !== null) return Math.ceil(wait);
  }
  const after = headers.get('retry-after');
  const seconds = decimal(after);
  if (seconds !== null) return Math.ceil(seconds * 1_000);
  const date = after === null || !/[a-z]{3}/i.test(after) ? Number.NaN : Date.parse(after);
  if (!Number.isNaN(date)) {
    const sent = Date.parse(headers.get('date') ?? '');
    return Math.max(0, date - (Number.isNaN(sent) ? now : sent));
  }
  return retryInfoMs(body);
}

function decimal(text: string | null): number | null {
  return text !== null && /^\d{1,12}(\.\d{1,9})?$/.test(text.trim()) ? Number(text) : null;
}

/** `{error: {details: [{"@type": "…google.rpc.RetryInfo", retryDelay: "34.4s"}]}}`, alone or in an array. */
function retryInfoMs(body: unknown): number | null {
  const { error } = membersOf(Array.isArray(body) ? body[0] : body);
  const { details } = membersOf(error);
  for (const detail of Array.isArray(details) ? details : []) {
    const { '@type': type, retryDelay } = membersOf(detail);
    if (typeof type !== 'string' || !type.endsWith('google.rpc.RetryInfo') || typeof retryDelay !== 'string') continue;
    const wait = decimal(retryDelay.replace(/s$/, ''));
    if (wait !== null) return Math.ceil(wait * 1_000);
  }
  return null;
}

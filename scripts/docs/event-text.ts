import { createParser } from 'eventsource-parser';
import { differences, recorded } from './compare.ts';
import type { Identities } from './forms.ts';

/** A server-sent event as it is sent. `id` is null for an event without one; otherwise its value means nothing. */
interface SentEvent {
  readonly event: string;
  readonly id: string | null;
  readonly data: unknown;
}

/** Longest id that a page shows in full. */
const MAX_ID_LENGTH = 40;

/**
 * Returns how a stream differs from the events that a page shows; none if it holds them in this order. The stream may hold further events
 * between them, because their number depends on time.
 */
export function streamDifferences(shown: string, real: string, identities: Identities): string[] {
  const events = eventsIn(real);
  const found: string[] = [];
  let at = 0;
  for (const event of eventsIn(shown)) {
    const candidates = events.map((one, index) => ({ one, index })).slice(at);
    const same = candidates.find(
      ({ one }) => one.event === event.event && eventDifferences(event, one, identities.copy()).length === 0,
    );
    if (same !== undefined) {
      eventDifferences(event, same.one, identities);
      at = same.index + 1;
      continue;
    }
    const closest = candidates.find(({ one }) => one.event === event.event);
    const why = closest === undefined ? [] : eventDifferences(event, closest.one, identities.copy());
    found.push(
      `the stream has no such event "${event.event}": ${why.join('; ') || events.map((one) => one.event).join(', ')}`,
    );
  }
  return found;
}

/** Returns a stream as a page shows it, with the volatile values of the events that it showed before. */
export function recordedStream(shown: string, real: string, identities: Identities): string {
  const before = eventsIn(shown);
  const lines = eventsIn(real).map(({ event, id, data }) => {
    const match = before.findIndex((one) => one.event === event);
    const [old] = match === -1 ? [] : before.splice(match, 1);
    const shownId = old?.id ?? (id !== null && id.length > MAX_ID_LENGTH ? `${id.slice(0, MAX_ID_LENGTH)}…` : id);
    return `${id === null ? '' : `id: ${shownId}\n`}event: ${event}\ndata: ${JSON.stringify(recorded(old?.data, data, identities))}\n`;
  });
  return lines.join('\n').trimEnd();
}

function eventDifferences(shown: SentEvent, real: SentEvent, identities: Identities): string[] {
  const found = differences(shown.data, real.data, identities);
  return (shown.id === null) === (real.id === null) ? found : [...found, `its id is ${real.id ?? 'missing'}`];
}

function eventsIn(text: string): SentEvent[] {
  const events: SentEvent[] = [];
  const parser = createParser({
    onEvent: ({ event = 'message', id, data }) => events.push({ event, id: id ?? null, data: parsed(data) }),
  });
  // An event ends with an empty line, which a page leaves out at the end of a block.
  parser.feed(`${text}\n\n`);
  return events;
}

function parsed(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return data;
  }
}

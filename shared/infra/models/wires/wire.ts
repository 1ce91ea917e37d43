import type { ProviderName } from '#shared/classifier/provider/names.ts';
import type { Prompt } from '#shared/classifier/tasks/prompt.ts';
import type { TokenUsage } from '#shared/classifier/tasks/task.ts';
import { isJsonObject } from '#shared/kernel/json.ts';
import { parseJsonText } from '#shared/kernel/parse-json.ts';

/** How the shape of an answer is enforced: by a schema at the provider, as any JSON, or by the prompt alone. */
export type AnswerForm = 'schema' | 'json' | 'prompt';

/** Address, model and key of a call. */
export interface WireTarget {
  provider: ProviderName;
  model: string;
  /** Without a final slash. */
  baseUrl: string;
  key: string | null;
}

/** A task for a wire. The prompt already contains the schema if `form` is not `schema`. */
export interface WireTask {
  prompt: Prompt;
  schema: Readonly<Record<string, unknown>>;
  form: AnswerForm;
  stream: boolean;
}

export interface WireRequest {
  url: string;
  headers: Record<string, string>;
  body: Readonly<Record<string, unknown>>;
}

/**
 * Content of an answer. `stop`: it is complete. `busy`: the provider stopped early because it lacked resources. The other
 * values are final: another call would end in the same way.
 */
export interface WireAnswer {
  text: string;
  finish: 'stop' | 'length' | 'filter' | 'refusal' | 'busy';
}

/** One event of a stream, as returned by the line parser. */
export interface ProviderEvent {
  event?: string | undefined;
  data: string;
}

/** Assembles the events of a stream. */
export interface StreamFold {
  take(event: ProviderEvent): void;
  /** Notes a line that is no line of a stream: it may have been a part of the answer. */
  spoil(): void;
  /** Returns true after the end mark of the protocol, or once the answer cannot become whole. The provider may keep the connection open. */
  isOver(): boolean;
  /** Returns the body that a call without streaming would return, or an error body; null if the answer is not whole. */
  body(): unknown;
  /** Returns the part of that body with the token counts that have arrived, also if the answer is not whole. */
  counted(): Readonly<Record<string, unknown>>;
}

/** Assembles the objects of one protocol's stream. */
export interface ChunkFold {
  /** Takes the object of one event. Returns true if it is the last one. */
  take(chunk: Readonly<Record<string, unknown>>): boolean;
  /** As in `StreamFold`, without the counts. `hasEndMark`: the end mark outside of the objects was read. */
  body(hasEndMark: boolean): Readonly<Record<string, unknown>> | null;
  counted(): Readonly<Record<string, unknown>>;
}

/**
 * Returns the fold of a stream whose events each contain one JSON object. An event without one, which a proxy has cut, may have contained
 * words of the answer: the answer then is not whole, whatever follows.
 */
export function objectsFold(fold: ChunkFold, isEndMark: (data: string) => boolean = () => false): StreamFold {
  let state: 'open' | 'over' | 'marked' | 'spoilt' = 'open';
  return {
    take({ data }) {
      if (state !== 'open') return;
      if (isEndMark(data)) {
        state = 'marked';
        return;
      }
      const chunk = jsonOf(data);
      if (!isJsonObject(chunk)) state = 'spoilt';
      else if (fold.take(chunk)) state = 'over';
    },
    spoil() {
      if (state === 'open') state = 'spoilt';
    },
    isOver: () => state !== 'open',
    body() {
      const body = state === 'spoilt' ? null : fold.body(state === 'marked');
      return body === null ? null : { ...body, ...fold.counted() };
    },
    counted: () => fold.counted(),
  };
}

/** One protocol of a model provider. It only converts requests and answers; callers handle calls, waits and failures. */
export interface Wire {
  /** Returns how this provider enforces the schema. */
  form(target: Pick<WireTarget, 'provider'>, schema: Readonly<Record<string, unknown>>): AnswerForm;
  request(task: WireTask, target: WireTarget): WireRequest;
  /** Reads the body of a 2xx answer. Returns null if it does not follow this protocol. */
  read(body: unknown): WireAnswer | null;
  /** Reads the token counts of any body, also of one that is no answer. */
  usageOf(body: unknown): TokenUsage;
  fold(): StreamFold;
  /** The header that contains the provider's request id; null if the provider sends none. */
  requestIdHeader: string | null;
}

/** Returns a provider's count, or null if it is missing or invalid. */
export function countOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** Returns the sum of the valid counts, or null if all are missing or invalid. */
export function sumOf(...values: unknown[]): number | null {
  const counts = values.map(countOf).filter((count) => count !== null);
  return counts.length === 0 ? null : counts.reduce((sum, count) => sum + count, 0);
}

/** Returns a provider's word in lower case, because servers differ in that; an empty text for any other value. */
export function wordOf(value: unknown): string {
  return typeof value === 'string' ? value.toLowerCase() : '';
}

function jsonOf(data: string): unknown {
  try {
    return parseJsonText(data);
  } catch {
    return undefined;
  }
}

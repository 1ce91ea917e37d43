import type { ProviderName } from '#shared/classifier/provider/names.ts';
import type { Prompt } from '#shared/classifier/tasks/prompt.ts';
import type { TokenUsage } from '#shared/classifier/tasks/task.ts';

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
  usage: TokenUsage;
}

/** One event of a stream, as returned by the line parser. */
export interface ProviderEvent {
  event?: string | undefined;
  data: string;
}

/** Assembles the events of a stream. */
export interface StreamFold {
  take(event: ProviderEvent): void;
  /** Returns the body that a call without streaming would return, or an error body; null if the stream has not ended. */
  body(): unknown;
}

/** One protocol of a model provider. It only converts requests and answers; callers handle calls, waits and failures. */
export interface Wire {
  /** Returns how this provider enforces the schema. */
  form(target: Pick<WireTarget, 'provider'>, schema: Readonly<Record<string, unknown>>): AnswerForm;
  request(task: WireTask, target: WireTarget): WireRequest;
  /** Reads the body of a 2xx answer. Returns null if it does not follow this protocol. */
  read(body: unknown): WireAnswer | null;
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

/** Returns the JSON value of an event's data, or undefined if it is invalid. */
export function jsonOf(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}

import type { UsageEvent } from '#shared/classifier/provider/circuit.ts';
import type { Judged } from './judge-answer.ts';
import type { Try, TryTurn } from './try-provider.ts';

/** The head of an answer; nulls = none came. */
export interface Told {
  status: number | null;
  headers: Headers | null;
}

/** What one try leaves for the accounts. `judged` is null where the caller broke it off; times are Unix ms. */
export function usageOfTry(
  { target, task, wire, about }: Pick<Try, 'target' | 'task' | 'wire' | 'about'>,
  turn: TryTurn,
  { told, judged, latencyMs, now }: { told: Told; judged: Judged | null; latencyMs: number; now: number },
): UsageEvent {
  return {
    ...about,
    ...(judged?.usage ?? { inputTokens: null, outputTokens: null }),
    provider: target.provider,
    baseUrl: target.origin,
    model: target.model,
    promptVersion: task.promptVersion,
    attempt: turn.attempt,
    retryWaitMs: turn.retryWaitMs,
    circuit: turn.asTrial ? 'half-open' : 'closed',
    latencyMs: Math.round(latencyMs),
    httpStatus: told.status,
    outcome: judged === null ? 'cancelled' : judged.kind === 'fits' ? 'success' : 'failure',
    errorCode: judged === null ? null : codeOf(judged),
    providerRequestId: requestIdOf(told, { wire, target }),
    createdAt: new Date(now),
  };
}

function codeOf(judged: Judged): UsageEvent['errorCode'] {
  if (judged.kind === 'failed') return judged.failed.failure.code;
  return judged.kind === 'fits' ? null : 'AI_PROVIDER_INVALID_RESPONSE';
}

/** What is no plain word, or repeats the key, is not kept. */
function requestIdOf({ headers }: Told, { wire, target }: Pick<Try, 'wire' | 'target'>): string | null {
  const id = wire.requestIdHeader === null ? null : (headers?.get(wire.requestIdHeader) ?? null);
  if (id === null || !/^[\x21-\x7e]{1,200}$/.test(id)) return null;
  return target.key !== null && id.includes(target.key) ? null : id;
}

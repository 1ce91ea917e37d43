import type { Operator } from './operator.ts';

const MIN_REASON = 5;

/** What the audit will say of why; null when it was not given, and then the operator has been told. */
export function reasonOf(operator: Pick<Operator, 'say'>, flags: { reason?: string }): string | null {
  const reason = flags.reason?.trim() ?? '';
  if (reason.length >= MIN_REASON) return reason;
  operator.say(`--reason of at least ${MIN_REASON} characters is required: it goes into the audit`);
  return null;
}

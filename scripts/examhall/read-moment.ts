import { DAY, HOUR, MINUTE, SECOND } from '#shared/kernel/time.ts';

const UNITS: Readonly<Record<string, number>> = { s: SECOND, m: MINUTE, h: HOUR, d: DAY };
const AGE = /^(\d{1,6})([smhd])$/;
/** A date alone would be ambiguous: the operator's midnight is not that of the server. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)$/;

/**
 * Reads a moment as an operator types it: a time with its zone (`2026-11-23T08:00+07:00`), or an age before `now` (`90m`, `2h`, `3d`).
 * Returns null if it is neither.
 */
export function readMoment(text: string, now: number): Date | null {
  const [, count, unit = ''] = AGE.exec(text) ?? [];
  if (count !== undefined) return new Date(now - Number(count) * (UNITS[unit] ?? 0));
  const at = TIME.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : new Date(at);
}

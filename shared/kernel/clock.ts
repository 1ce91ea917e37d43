/**
 * The time by which business is judged, in Unix milliseconds. In a running process it is MongoDB's time through
 * a measured offset (`shared/infra/mongo/server-clock.ts`), never the bare process clock: two front doors whose
 * clocks differ by minutes must judge one deadline alike.
 */
export type Now = () => number;

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

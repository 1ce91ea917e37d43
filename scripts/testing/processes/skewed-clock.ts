/** Loaded before a process of a test cluster: its wall clock is off by TEST_SKEW_MS, its monotonic clock is not. */
const skew = Number(process.env.TEST_SKEW_MS);
const TrueDate = Date;
const trueNow = Date.now.bind(Date);

class SkewedDate extends TrueDate {
  constructor(...given: unknown[]) {
    // As `new Date` is called: nothing means now.
    if (given.length === 0) super(trueNow() + skew);
    else super(...(given as [number]));
  }

  static override now(): number {
    return trueNow() + skew;
  }
}

Object.defineProperty(SkewedDate, 'name', { value: 'Date' });
globalThis.Date = SkewedDate as DateConstructor;

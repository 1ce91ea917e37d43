/** Preloaded into a process of a test cluster: shifts its wall clock by TEST_SKEW_MS and leaves its monotonic clock unchanged. */
const skew = Number(process.env.TEST_SKEW_MS);
const TrueDate = Date;
const trueNow = Date.now.bind(Date);

class SkewedDate extends TrueDate {
  constructor(...given: unknown[]) {
    // `new Date()` without arguments is the current time.
    if (given.length === 0) super(trueNow() + skew);
    else super(...(given as [number]));
  }

  static override now(): number {
    return trueNow() + skew;
  }
}

Object.defineProperty(SkewedDate, 'name', { value: 'Date' });
globalThis.Date = SkewedDate as DateConstructor;

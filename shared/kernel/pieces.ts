/**
 * Work in pieces: at each `yield` its runner may serve other requests before it goes on. Rules that read a whole paper or all rows of a
 * fan-out are written so, because the work of one request must hold up no other.
 */
export type Pieces<Result> = Generator<void, Result, void>;

/** Does all of the work at once: for small input, and in tools that serve no other caller. */
export function atOnce<Result>(work: Pieces<Result>): Result {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}

/**
 * Returns a function that joins its calls into groups. `run` is called with one group at a time, of at most `max` inputs, and returns
 * their outputs in order. A call that comes while a group runs joins the next group. Otherwise it waits one turn of the event loop, so
 * that calls of the same turn share a group. If `run` rejects, the calls of that group reject with its error; later groups run.
 */
export function inGroups<Input, Output>(
  max: number,
  run: (inputs: readonly Input[]) => Promise<readonly Output[]>,
): (input: Input) => Promise<Output> {
  interface Group {
    inputs: Input[];
    outputs: Promise<readonly Output[]>;
  }
  let open: Group | null = null;
  let before: Promise<unknown> = Promise.resolve();

  function openGroup(): Group {
    const inputs: Input[] = [];
    const outputs = before
      .then(() => new Promise((resolve) => setImmediate(resolve)))
      .then(() => {
        if (open?.inputs === inputs) open = null;
        return run(inputs);
      });
    // The callers handle a rejection. Here it must only not end the chain.
    before = outputs.catch(() => undefined);
    return { inputs, outputs };
  }

  return async (input) => {
    if (open === null || open.inputs.length >= max) open = openGroup();
    const { inputs, outputs } = open;
    const place = inputs.push(input) - 1;
    return (await outputs)[place] as Output;
  };
}

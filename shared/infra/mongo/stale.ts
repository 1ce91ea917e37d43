/**
 * A document was written by somebody else between the load on which a decision rests and its commit. The decision is
 * thrown away and made again on what is there now; nobody is at fault and no attempt is spent.
 */
export class Stale extends Error {
  constructor(what: string) {
    super(`${what} changed between load and commit`);
    this.name = 'Stale';
  }
}

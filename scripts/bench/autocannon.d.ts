/** The part of autocannon that the bench uses; the package has no types of its own. */
declare module 'autocannon' {
  interface Options {
    url: string;
    connections: number;
    pipelining?: number;
    /** Seconds. */
    duration?: number;
    /** Requests, in place of a duration. */
    amount?: number;
    method: string;
    headers: Record<string, string>;
    body: string;
  }
  interface Result {
    errors: number;
    non2xx: number;
    '2xx': number;
    /** Seconds. */
    duration: number;
  }
  function autocannon(options: Options): Promise<Result>;
  export = autocannon;
}

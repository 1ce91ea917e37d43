import type { Mongo } from '#infra/mongo/connect.ts';

/** Names of the MongoDB commands that a client sends. */
export interface CommandCount {
  /** Those since the last asking, in order. */
  taken(): string[];
}

/** Watches a client by the driver's own command monitoring. Call it before the client's first command. */
export function countCommands({ client }: Mongo): CommandCount {
  let names: string[] = [];
  client.options.monitorCommands = true;
  client.on('commandStarted', (event) => names.push(event.commandName));
  return {
    taken() {
      const taken = names;
      names = [];
      return taken;
    },
  };
}

import type { CommandStartedEvent } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';

/**
 * Records the commands of a client by the driver's command monitoring. Call it before the client's first command. `nameOf` names a command;
 * default: its own name.
 */
export function countCommands(
  { client }: Mongo,
  nameOf: (event: CommandStartedEvent) => string = ({ commandName }) => commandName,
): { taken(): string[] } {
  let names: string[] = [];
  client.options.monitorCommands = true;
  client.on('commandStarted', (event) => names.push(nameOf(event)));
  return {
    /** Returns the commands since the last call, in order. */
    taken() {
      const taken = names;
      names = [];
      return taken;
    },
  };
}

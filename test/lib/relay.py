#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A TCP relay that can be slow, hold everything back, or let connections be half open. Commands come by standard input, a line each:

    delay S   each piece is passed on S seconds after it came (0: at once)
    hold      nothing is passed on, connections are accepted by the kernel only
    go        what was held is passed on
    forget    the connections that there are stay open and pass nothing on any more, as after a reboot of a router; new ones work

    relay.py PORT TARGET TARGET_PORT   listens on 127.0.0.1"""

import asyncio
import sys

PIECE = 65536


class Relay:
    def __init__(self, target):
        self.target = target
        self.delay = 0.0
        self.open = asyncio.Event()
        self.open.set()
        self.generation = 0  # connections of an older one are forgotten

    async def serve(self, reader, writer):
        generation = self.generation
        try:
            await self.open.wait()
            other_reader, other_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self.pump(reader, other_writer, generation), self.pump(other_reader, writer, generation))

    async def pump(self, reader, writer, generation):
        loop = asyncio.get_running_loop()
        last = 0.0
        try:
            while True:
                piece = await reader.read(PIECE)
                await self.open.wait()
                if generation != self.generation:
                    await loop.create_future()  # for ever
                last = max(last, loop.time() + self.delay)  # in order, also when the delay shrinks
                loop.call_at(last, self.pass_on, writer, piece)
                if not piece:
                    return
        except OSError:
            loop.call_at(max(last, loop.time()), writer.close)

    @staticmethod
    def pass_on(writer, piece):
        if writer.is_closing():
            return
        if piece:
            writer.write(piece)
        elif writer.can_write_eof():
            try:
                writer.write_eof()
            except OSError:
                writer.close()

    def command(self, words):
        if words[0] == "delay":
            self.delay = float(words[1])
        elif words[0] == "hold":
            self.open.clear()
        elif words[0] == "go":
            self.open.set()
        elif words[0] == "forget":
            self.generation += 1


async def main():
    relay = Relay((sys.argv[2], int(sys.argv[3])))
    await asyncio.start_server(relay.serve, "127.0.0.1", int(sys.argv[1]))
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    print("ready", flush=True)
    while line := await commands.readline():
        relay.command(line.decode().split())
        print("done", flush=True)


asyncio.run(main())

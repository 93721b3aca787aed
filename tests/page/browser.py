# SPDX-License-Identifier: MIT
"""A headless Chromium that is driven by its DevTools protocol over a pipe.

    with Browser(width=1280, height=900) as browser:
        browser.open('/tmp/report.html#model.weight')
        browser.run('document.title')               the value of a JavaScript expression
        browser.key('ArrowDown')
        browser.messages                            console errors, warnings, exceptions
"""
import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

LIMIT = 120  # s: for each answer; guards against a hang only
KEYS = {'ArrowDown': 40, 'ArrowUp': 38, 'End': 35, 'Home': 36, 'Enter': 13, 'Escape': 27, 'Tab': 9}


def find():
    """The path of Chromium, or None."""
    return shutil.which('chromium') or shutil.which('chromium-browser')


def high(descriptor):
    """The descriptor moved above 9, so that dup2 to 3 and 4 cannot close it."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10)
    os.close(descriptor)
    return moved


class Browser:
    def __init__(self, width=1280, height=900, dark=False):
        self.number, self.buffer, self.messages, self.requests = 0, b'', [], []
        self.profile = tempfile.mkdtemp(prefix='ckptfs-page-')
        (to_read, self.out), (self.into, to_write) = map(lambda pair: map(high, pair), (os.pipe(), os.pipe()))

        def descriptors():
            os.dup2(to_read, 3)
            os.dup2(to_write, 4)

        self.process = subprocess.Popen(
            [find(), '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
             '--remote-debugging-pipe', f'--user-data-dir={self.profile}', '--host-resolver-rules=MAP * ~NOTFOUND',
             'about:blank'],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=descriptors, start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        self.session = None
        page = next(target for target in self.call('Target.getTargets')['targetInfos'] if target['type'] == 'page')
        self.session = self.call('Target.attachToTarget', targetId=page['targetId'], flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self.call(f'{domain}.enable')
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call('Emulation.setEmulatedMedia', features=[
            {'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.out)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.into)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        """The next message; events that concern the tests are kept."""
        end = time.monotonic() + LIMIT
        while b'\0' not in self.buffer:
            if not select.select([self.into], [], [], end - time.monotonic())[0]:
                raise TimeoutError('Chromium does not answer')
            part = os.read(self.into, 1 << 20)
            if not part:
                raise EOFError('Chromium has ended')
            self.buffer += part
        text, self.buffer = self.buffer.split(b'\0', 1)
        message = json.loads(text)
        method, values = message.get('method'), message.get('params')
        if method == 'Runtime.exceptionThrown':
            self.messages.append(values['exceptionDetails'].get('exception', {}).get('description', 'exception'))
        elif method == 'Runtime.consoleAPICalled':
            self.messages.append(f'{values["type"]}: {values["args"]}')
        elif method == 'Log.entryAdded':
            self.messages.append(values['entry']['text'])
        elif method == 'Network.requestWillBeSent':
            self.requests.append(values['request']['url'])
        return message

    def call(self, method, **values):
        self.number += 1
        message = {'id': self.number, 'method': method, 'params': values}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.out, json.dumps(message).encode() + b'\0')
        while True:
            answer = self.receive()
            if answer.get('id') == self.number:
                break
        if 'error' in answer:
            raise RuntimeError(f'{method}: {answer["error"]}')
        return answer['result']

    def open(self, path):
        """Loads a file; the path may end with #FRAGMENT."""
        self.call('Page.navigate', url='about:blank')
        self.call('Page.navigate', url=f'file://{path}')
        while self.run('document.readyState') != 'complete' or self.run('location.href') == 'about:blank':
            time.sleep(0.02)

    def run(self, script):
        """The value of an expression; a promise is waited for."""
        answer = self.call('Runtime.evaluate', expression=script, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in answer:
            raise RuntimeError(answer['exceptionDetails']['exception'].get('description'))
        return answer['result'].get('value')

    def key(self, name):
        code = KEYS.get(name)
        text = {'text': '\r'} if name == 'Enter' else {'text': name} if code is None else {}
        self.call('Input.dispatchKeyEvent', type='keyDown', key=name, windowsVirtualKeyCode=code or ord(name), **text)
        self.call('Input.dispatchKeyEvent', type='keyUp', key=name, windowsVirtualKeyCode=code or ord(name))
        self.settle()

    def type(self, text):
        self.call('Input.insertText', text=text)
        self.settle()

    def mouse(self, x, y, click=False):
        self.call('Input.dispatchMouseEvent', type='mouseMoved', x=x, y=y)
        for kind in ('mousePressed', 'mouseReleased') if click else ():
            self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', clickCount=1)
        self.settle()

    def settle(self):
        """Two frames: events are handled, and the page is drawn."""
        self.run('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')

    def picture(self, path):
        with open(path, 'wb') as f:
            f.write(base64.b64decode(self.call('Page.captureScreenshot')['data']))

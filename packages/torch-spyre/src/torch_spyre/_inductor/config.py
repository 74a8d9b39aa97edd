# SPDX-License-Identifier: Apache-2.0
"""The compiler's settings: this name is :mod:`spyre_inductor.config` itself.

The module replaces itself, so that setting an attribute here sets it there.
"""

import sys

from spyre_inductor import config

sys.modules[__name__] = config

"""What the files of this folder share lies in columnar_support/; tests are no package, so its folder is named."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

"""What runs: releases, routes, admission, the token log, the engine host."""

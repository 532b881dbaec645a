<?php
define('DB_NAME', 'wordpress');
define('DB_USER', 'wordpress');
define('DB_PASSWORD', getenv('WORDPRESS_DB_PASSWORD'));
define('DB_HOST', getenv('WORDPRESS_DB_HOST'));
define('WP_CONTENT_DIR', '/usr/share/wordpress/wp-content');
define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('DISABLE_WP_CRON', true);
// The site answers under whichever name it is asked.
define('WP_HOME', 'http://' . ($_SERVER['HTTP_HOST'] ?? 'localhost:8080'));
define('WP_SITEURL', WP_HOME);
